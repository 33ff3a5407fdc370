"""Pods that cannot be: their containers, volumes and other fields."""

from __future__ import annotations

from tests.contracts.strange.requests import MERGE, PODS, STRATEGIC, RequestInfo, container, pod, volume

CONTAINERS = (
    RequestInfo("a pod without containers", "POST", PODS, pod(containers=[])),
    RequestInfo(
        "a pod without spec", "POST", PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "strange"}}
    ),
    RequestInfo("a container without name and image", "POST", PODS, pod(containers=[{}])),
    RequestInfo("a container whose name is a path", "POST", PODS, container(name="../../../etc")),
    RequestInfo("a container whose name has a dot", "POST", PODS, container(name="a.b")),
    RequestInfo("a container whose name is too long", "POST", PODS, container(name="a" * 64)),
    RequestInfo("two containers of one name", "POST", PODS, pod(initContainers=[{"name": "a", "image": "a:1"}])),
    RequestInfo("a variable without a name", "POST", PODS, container(env=[{"value": "a"}])),
    RequestInfo(
        "a variable whose name has an equals sign", "POST", PODS, container(env=[{"name": "a=b", "value": "a"}])
    ),
    RequestInfo(
        "a variable of two sources",
        "POST",
        PODS,
        container(env=[{"name": "a", "value": "a", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]),
    ),
    RequestInfo("a variable of a source that is none", "POST", PODS, container(env=[{"name": "a", "valueFrom": {}}])),
    RequestInfo(
        "a variable of a field that is none",
        "POST",
        PODS,
        container(env=[{"name": "a", "valueFrom": {"fieldRef": {"fieldPath": "spec.nowhere"}}}]),
    ),
    RequestInfo(
        "a variable of a key that is none",
        "POST",
        PODS,
        container(env=[{"name": "a", "valueFrom": {"configMapKeyRef": {"name": "a", "key": "a/b"}}}]),
    ),
    RequestInfo(
        "variables with an illegal prefix",
        "POST",
        PODS,
        container(envFrom=[{"prefix": "a=", "configMapRef": {"name": "a"}}]),
    ),
    RequestInfo("variables of nothing", "POST", PODS, container(envFrom=[{}])),
    RequestInfo("a port that is none", "POST", PODS, container(ports=[{"containerPort": 70000}])),
    RequestInfo(
        "a name of a port that is illegal", "POST", PODS, container(ports=[{"name": "A_b", "containerPort": 80}])
    ),
    RequestInfo("an image with blanks", "POST", PODS, container(image=" a:1 ")),
    RequestInfo("a way to pull that is not there", "POST", PODS, container(imagePullPolicy="Perhaps")),
    RequestInfo(
        "a mount of what is not there", "POST", PODS, container(volumeMounts=[{"name": "v", "mountPath": "/a"}])
    ),
    RequestInfo(
        "a mount nowhere",
        "POST",
        PODS,
        pod(
            volumes=[{"name": "v", "emptyDir": {}}],
            containers=[{"name": "a", "image": "a:1", "volumeMounts": [{"name": "v"}]}],
        ),
    ),
    RequestInfo(
        "two mounts at one place",
        "POST",
        PODS,
        pod(
            volumes=[{"name": "v", "emptyDir": {}}],
            containers=[
                {
                    "name": "a",
                    "image": "a:1",
                    "volumeMounts": [{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/a"}],
                }
            ],
        ),
    ),
    RequestInfo(
        "a mount of a path that goes up",
        "POST",
        PODS,
        pod(
            volumes=[{"name": "v", "emptyDir": {}}],
            containers=[
                {"name": "a", "image": "a:1", "volumeMounts": [{"name": "v", "mountPath": "/a", "subPath": "../b"}]}
            ],
        ),
    ),
    RequestInfo(
        "a mount of an absolute path",
        "POST",
        PODS,
        pod(
            volumes=[{"name": "v", "emptyDir": {}}],
            containers=[
                {"name": "a", "image": "a:1", "volumeMounts": [{"name": "v", "mountPath": "/a", "subPath": "/b"}]}
            ],
        ),
    ),
)
VOLUMES = (
    RequestInfo("a volume without a name", "POST", PODS, pod(volumes=[{"emptyDir": {}}])),
    RequestInfo("a volume whose name is a path", "POST", PODS, pod(volumes=[{"name": "../v", "emptyDir": {}}])),
    RequestInfo(
        "two volumes of one name",
        "POST",
        PODS,
        pod(volumes=[{"name": "v", "emptyDir": {}}, {"name": "v", "emptyDir": {}}]),
    ),
    RequestInfo("a volume of two sources", "POST", PODS, volume(emptyDir={}, hostPath={"path": "/a"})),
    RequestInfo("a path of the host that goes up", "POST", PODS, volume(hostPath={"path": "/a/../../b"})),
    RequestInfo("a path of the host that is none", "POST", PODS, volume(hostPath={"path": ""})),
    RequestInfo(
        "a path of the host of a kind that is none", "POST", PODS, volume(hostPath={"path": "/a", "type": "Thing"})
    ),
    RequestInfo(
        "an item whose path is absolute",
        "POST",
        PODS,
        volume(configMap={"name": "a", "items": [{"key": "a", "path": "/a"}]}),
    ),
    RequestInfo(
        "an item whose path goes up",
        "POST",
        PODS,
        volume(configMap={"name": "a", "items": [{"key": "a", "path": "a/../../b"}]}),
    ),
    RequestInfo(
        "an item whose path begins with two dots",
        "POST",
        PODS,
        volume(secret={"secretName": "a", "items": [{"key": "a", "path": "..a"}]}),
    ),
    RequestInfo("an item without key and path", "POST", PODS, volume(secret={"secretName": "a", "items": [{}]})),
    RequestInfo("a ConfigMap without a name", "POST", PODS, volume(configMap={})),
    RequestInfo("a Secret without a name", "POST", PODS, volume(secret={})),
    RequestInfo("a mode that is none", "POST", PODS, volume(configMap={"name": "a", "defaultMode": 5000})),
    RequestInfo(
        "a projected path that goes up",
        "POST",
        PODS,
        volume(projected={"sources": [{"configMap": {"name": "a", "items": [{"key": "a", "path": "../a"}]}}]}),
    ),
    RequestInfo(
        "a projected token without a path", "POST", PODS, volume(projected={"sources": [{"serviceAccountToken": {}}]})
    ),
    RequestInfo(
        "a projected path twice",
        "POST",
        PODS,
        volume(projected={"sources": [{"configMap": {"name": n, "items": [{"key": "a", "path": "a"}]}} for n in "ab"]}),
    ),
    RequestInfo(
        "a downward path that goes up",
        "POST",
        PODS,
        volume(downwardAPI={"items": [{"path": "../a", "fieldRef": {"fieldPath": "metadata.name"}}]}),
    ),
)
POD_FIELDS = (
    RequestInfo("a way to restart that is not there", "POST", PODS, pod(restartPolicy="Perhaps")),
    RequestInfo("a way to resolve names that is not there", "POST", PODS, pod(dnsPolicy="Perhaps")),
    RequestInfo("a pod for a node whose name is none", "POST", PODS, pod(nodeName="No_node")),
    RequestInfo("a pod for an account whose name is none", "POST", PODS, pod(serviceAccountName="No_account")),
    RequestInfo("a grace below zero of a pod", "POST", PODS, pod(terminationGracePeriodSeconds=-1)),
    RequestInfo("a deadline of zero", "POST", PODS, pod(activeDeadlineSeconds=0)),
    RequestInfo("a host's name that is none", "POST", PODS, pod(hostname="a.b")),
    RequestInfo("a label of nodes that is none", "POST", PODS, pod(nodeSelector={"a b": "c"})),
    RequestInfo("a toleration of nothing", "POST", PODS, pod(tolerations=[{"operator": "Exists", "value": "a"}])),
    RequestInfo("a quantity that is none", "POST", PODS, container(resources={"requests": {"cpu": "much"}})),
    RequestInfo(
        "a request beyond its limit",
        "POST",
        PODS,
        container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
    ),
    RequestInfo("a pod whose name is none", "POST", PODS, pod("No_pod")),
    RequestInfo(
        "a pod whose container changes", "PATCH", f"{PODS}/free", {"spec": {"nodeSelector": {"a": "b"}}}, MERGE
    ),
    RequestInfo(
        "a pod whose image goes",
        "PATCH",
        f"{PODS}/free",
        {"spec": {"containers": [{"name": "a", "image": ""}]}},
        STRATEGIC,
    ),
)
