// Program client-go-peer is what a controller written in Go does with a watched resource, and nothing more: a shared
// informer fills a cache, every event puts the object's key in a work queue, a worker takes keys off and reads the
// cache. Benchmarks run it beside Espalier's caches, on the same API server.
//
// It prints two lines of JSON: one with "phase": "synced" when every object of the first list has been seen and
// counted, and one with "phase": "done" when -count events have been.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"
)

// report is one line of output. Seconds count from just before the informer is started, "unix_seconds" is the moment at
// which they were measured.
type report struct {
	Phase           string  `json:"phase"`
	Cache           string  `json:"cache"`
	ClientGo        string  `json:"client_go"`
	Go              string  `json:"go"`
	GoMaxProcesses  int     `json:"gomaxprocs"`
	Objects         int     `json:"objects"`
	Events          int64   `json:"events"`
	Keys            int64   `json:"keys_handled"`
	Seconds         float64 `json:"seconds"`
	SecondsSynced   float64 `json:"seconds_to_sync"`
	UnixSeconds     float64 `json:"unix_seconds"`
	CPUSeconds      float64 `json:"cpu_seconds"`
	CPUBefore       float64 `json:"cpu_seconds_before"`
	HeapBytes       uint64  `json:"heap_bytes"`
	HeapBytesBefore uint64  `json:"heap_bytes_before"`
	PeakMemoryKiB   int     `json:"peak_memory_kib"`
}

// counter counts events and closes reached at the wanted number.
type counter struct {
	wanted  int64
	events  atomic.Int64
	keys    atomic.Int64
	at      time.Time
	reached chan struct{}
}

func (c *counter) event() {
	if c.events.Add(1) == c.wanted {
		c.at = time.Now()
		close(c.reached)
	}
}

func main() {
	kubeconfig := flag.String("kubeconfig", os.Getenv("KUBECONFIG"), "the `file` that says how to reach the API server")
	resource := flag.String("resource", "", "watch this `group/version/plural` as unstructured objects")
	typed := flag.String("typed", "", "watch this built-in resource as typed objects (configmaps, over protobuf)")
	count := flag.Int64("count", 0, "end after this many events; 0 ends when the cache has synced")
	timeout := flag.Duration("timeout", 10*time.Minute, "give up after this long")
	flag.Parse()
	if err := run(*kubeconfig, *resource, *typed, *count, *timeout); err != nil {
		fmt.Fprintln(os.Stderr, "client-go-peer:", err)
		os.Exit(1)
	}
}

func run(kubeconfig, resource, typed string, count int64, timeout time.Duration) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1 // no client-side limit: the peer shall not wait for itself
	config.UserAgent = "client-go-peer"
	informer, kind, err := newInformer(config, resource, typed)
	if err != nil {
		return err
	}
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	defer queue.ShutDown()
	counts := &counter{wanted: count, reached: make(chan struct{})}
	registration, err := informer.AddEventHandler(handler(counts, queue))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()

	heapBefore, cpuBefore := heap(), cpuSeconds()
	start := time.Now()
	go work(queue, informer.GetIndexer(), counts)
	go informer.RunWithContext(ctx)
	select {
	case <-registration.HasSyncedChecker().Done():
	case <-ctx.Done():
		return fmt.Errorf("the cache did not sync within %s", timeout)
	}
	synced := time.Since(start)
	say := func(phase string, seconds float64) error {
		return json.NewEncoder(os.Stdout).Encode(measure(report{
			Phase: phase, Cache: kind, Objects: len(informer.GetIndexer().ListKeys()),
			Events: counts.events.Load(), Keys: counts.keys.Load(), Seconds: seconds, SecondsSynced: synced.Seconds(),
			UnixSeconds:     float64(start.UnixNano())/1e9 + seconds,
			HeapBytesBefore: heapBefore, CPUBefore: cpuBefore,
		}))
	}
	if err := say("synced", synced.Seconds()); err != nil || count == 0 {
		return err
	}
	select {
	case <-counts.reached:
		return say("done", counts.at.Sub(start).Seconds())
	case <-ctx.Done():
		return fmt.Errorf("%d of %d events after %s", counts.events.Load(), count, timeout)
	}
}

// newInformer makes the shared informer and says what it holds.
func newInformer(config *rest.Config, resource, typed string) (cache.SharedIndexInformer, string, error) {
	indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	switch {
	case typed == "configmaps" && resource == "":
		config.ContentType = k8sruntime.ContentTypeProtobuf
		config.AcceptContentTypes = k8sruntime.ContentTypeProtobuf + "," + k8sruntime.ContentTypeJSON
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return nil, "", err
		}
		return informers.NewSharedInformerFactory(client, 0).Core().V1().ConfigMaps().Informer(), "typed", nil
	case typed == "" && strings.Count(resource, "/") == 2:
		parts := strings.Split(resource, "/")
		client, err := dynamic.NewForConfig(config)
		if err != nil {
			return nil, "", err
		}
		watched := schema.GroupVersionResource{Group: parts[0], Version: parts[1], Resource: parts[2]}
		return dynamicinformer.NewFilteredDynamicInformer(client, watched, metav1.NamespaceAll, 0, indexers, nil).Informer(),
			"unstructured", nil
	}
	return nil, "", fmt.Errorf("give either -resource group/version/plural or -typed configmaps")
}

// handler counts each event and queues the object's key.
func handler(counts *counter, queue workqueue.TypedInterface[string]) cache.ResourceEventHandler {
	handle := func(object any) {
		key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object)
		if err != nil {
			panic(err) // the informer holds nothing but objects with metadata
		}
		queue.Add(key)
		counts.event()
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    handle,
		UpdateFunc: func(_, object any) { handle(object) },
		DeleteFunc: handle,
	}
}

// work is the reconciler: it reads the object from the cache and is content with it.
func work(queue workqueue.TypedRateLimitingInterface[string], indexer cache.Indexer, counts *counter) {
	for {
		key, stopped := queue.Get()
		if stopped {
			return
		}
		if _, _, err := indexer.GetByKey(key); err != nil {
			panic(err) // a cache in memory has no errors to give
		}
		counts.keys.Add(1)
		queue.Forget(key)
		queue.Done(key)
	}
}

// measure adds what the process has used until now; the heap is what lives after a collection.
func measure(line report) report {
	line.CPUSeconds = cpuSeconds()
	line.PeakMemoryKiB = peakMemoryKiB()
	line.HeapBytes = heap()
	line.Go, line.GoMaxProcesses = runtime.Version(), runtime.GOMAXPROCS(0)
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == "k8s.io/client-go" {
				line.ClientGo = module.Version
			}
		}
	}
	return line
}

// cpuSeconds is what the process has used until now, in its own code and in the kernel's.
func cpuSeconds() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
}

// heap is the number of bytes that live. Pools give up what they hold at the second collection only.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return memory.HeapAlloc
}

// peakMemoryKiB is the largest resident size (Linux; elsewhere 0). getrusage does not serve: what it says begins with
// the peak of the process that started this one.
func peakMemoryKiB() int {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if value, found := strings.CutPrefix(line, "VmHWM:"); found {
			peak, _ := strconv.Atoi(strings.Fields(value)[0])
			return peak
		}
	}
	return 0
}
