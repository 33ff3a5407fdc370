"""Pods that cannot be: their containers, volumes and other fields."""

from __future__ import annotations

from tests.contracts.edge_cases.requests import MERGE, PODS, STRATEGIC, Ask, container, pod, volume

CONTAINERS = (
    Ask("a pod without containers", "POST", PODS, pod(containers=[])),
    Ask("a pod without spec", "POST", PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "strange"}}),
    Ask("a container without name and image", "POST", PODS, pod(containers=[{}])),
    Ask("a container whose name is a path", "POST", PODS, container(name="../../../etc")),
    Ask("a container whose name has a dot", "POST", PODS, container(name="a.b")),
    Ask("a container whose name is too long", "POST", PODS, container(name="a" * 64)),
    Ask("two containers of one name", "POST", PODS, pod(initContainers=[{"name": "a", "image": "a:1"}])),
    Ask("a variable without a name", "POST", PODS, container(env=[{"value": "a"}])),
    Ask("a variable whose name has an equals sign", "POST", PODS, container(env=[{"name": "a=b", "value": "a"}])),
    Ask(
        "a variable of two sources",
        "POST",
        PODS,
        container(env=[{"name": "a", "value": "a", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]),
    ),
    Ask("a variable of a source that is none", "POST", PODS, container(env=[{"name": "a", "valueFrom": {}}])),
    Ask(
        "a variable of a field that is none",
        "POST",
        PODS,
        container(env=[{"name": "a", "valueFrom": {"fieldRef": {"fieldPath": "spec.nowhere"}}}]),
    ),
    Ask(
        "a variable of a key that is none",
        "POST",
        PODS,
        container(env=[{"name": "a", "valueFrom": {"configMapKeyRef": {"name": "a", "key": "a/b"}}}]),
    ),
    Ask(
        "variables with an illegal prefix",
        "POST",
        PODS,
        container(envFrom=[{"prefix": "a=", "configMapRef": {"name": "a"}}]),
    ),
    Ask("variables of nothing", "POST", PODS, container(envFrom=[{}])),
    Ask("a port that is none", "POST", PODS, container(ports=[{"containerPort": 70000}])),
    Ask("a name of a port that is illegal", "POST", PODS, container(ports=[{"name": "A_b", "containerPort": 80}])),
    Ask("an image with blanks", "POST", PODS, container(image=" a:1 ")),
    Ask("a way to pull that is not there", "POST", PODS, container(imagePullPolicy="Perhaps")),
    Ask("a mount of what is not there", "POST", PODS, container(volumeMounts=[{"name": "v", "mountPath": "/a"}])),
    Ask(
        "a mount nowhere",
        "POST",
        PODS,
        pod(
            volumes=[{"name": "v", "emptyDir": {}}],
            containers=[{"name": "a", "image": "a:1", "volumeMounts": [{"name": "v"}]}],
        ),
    ),
    Ask(
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
    Ask(
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
    Ask(
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
    Ask("a volume without a name", "POST", PODS, pod(volumes=[{"emptyDir": {}}])),
    Ask("a volume whose name is a path", "POST", PODS, pod(volumes=[{"name": "../v", "emptyDir": {}}])),
    Ask(
        "two volumes of one name",
        "POST",
        PODS,
        pod(volumes=[{"name": "v", "emptyDir": {}}, {"name": "v", "emptyDir": {}}]),
    ),
    Ask("a volume of two sources", "POST", PODS, volume(emptyDir={}, hostPath={"path": "/a"})),
    Ask("a path of the host that goes up", "POST", PODS, volume(hostPath={"path": "/a/../../b"})),
    Ask("a path of the host that is none", "POST", PODS, volume(hostPath={"path": ""})),
    Ask("a path of the host of a kind that is none", "POST", PODS, volume(hostPath={"path": "/a", "type": "Thing"})),
    Ask(
        "an item whose path is absolute",
        "POST",
        PODS,
        volume(configMap={"name": "a", "items": [{"key": "a", "path": "/a"}]}),
    ),
    Ask(
        "an item whose path goes up",
        "POST",
        PODS,
        volume(configMap={"name": "a", "items": [{"key": "a", "path": "a/../../b"}]}),
    ),
    Ask(
        "an item whose path begins with two dots",
        "POST",
        PODS,
        volume(secret={"secretName": "a", "items": [{"key": "a", "path": "..a"}]}),
    ),
    Ask("an item without key and path", "POST", PODS, volume(secret={"secretName": "a", "items": [{}]})),
    Ask("a ConfigMap without a name", "POST", PODS, volume(configMap={})),
    Ask("a Secret without a name", "POST", PODS, volume(secret={})),
    Ask("a mode that is none", "POST", PODS, volume(configMap={"name": "a", "defaultMode": 5000})),
    Ask(
        "a projected path that goes up",
        "POST",
        PODS,
        volume(projected={"sources": [{"configMap": {"name": "a", "items": [{"key": "a", "path": "../a"}]}}]}),
    ),
    Ask("a projected token without a path", "POST", PODS, volume(projected={"sources": [{"serviceAccountToken": {}}]})),
    Ask(
        "a projected path twice",
        "POST",
        PODS,
        volume(projected={"sources": [{"configMap": {"name": n, "items": [{"key": "a", "path": "a"}]}} for n in "ab"]}),
    ),
    Ask(
        "a downward path that goes up",
        "POST",
        PODS,
        volume(downwardAPI={"items": [{"path": "../a", "fieldRef": {"fieldPath": "metadata.name"}}]}),
    ),
)
POD_FIELDS = (
    Ask("a way to restart that is not there", "POST", PODS, pod(restartPolicy="Perhaps")),
    Ask("a way to resolve names that is not there", "POST", PODS, pod(dnsPolicy="Perhaps")),
    Ask("a pod for a node whose name is none", "POST", PODS, pod(nodeName="No_node")),
    Ask("a pod for an account whose name is none", "POST", PODS, pod(serviceAccountName="No_account")),
    Ask("a grace below zero of a pod", "POST", PODS, pod(terminationGracePeriodSeconds=-1)),
    Ask("a deadline of zero", "POST", PODS, pod(activeDeadlineSeconds=0)),
    Ask("a host's name that is none", "POST", PODS, pod(hostname="a.b")),
    Ask("a label of nodes that is none", "POST", PODS, pod(nodeSelector={"a b": "c"})),
    Ask("a toleration of nothing", "POST", PODS, pod(tolerations=[{"operator": "Exists", "value": "a"}])),
    Ask("a quantity that is none", "POST", PODS, container(resources={"requests": {"cpu": "much"}})),
    Ask(
        "a request beyond its limit",
        "POST",
        PODS,
        container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
    ),
    Ask("a pod whose name is none", "POST", PODS, pod("No_pod")),
    Ask("a pod whose container changes", "PATCH", f"{PODS}/free", {"spec": {"nodeSelector": {"a": "b"}}}, MERGE),
    Ask(
        "a pod whose image goes",
        "PATCH",
        f"{PODS}/free",
        {"spec": {"containers": [{"name": "a", "image": ""}]}},
        STRATEGIC,
    ),
)
