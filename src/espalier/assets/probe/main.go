// Program probe says over HTTP which pod it is, and asks others: for looking at a cluster from the inside, where no
// other image can be had.
//
//	probe serve [:8080]            answers each request with the host's name
//	probe get URL [TIMES [EVERY]]  prints each answer; ends with 1 when one of them failed
//	probe sleep                    waits to be told to end
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

func main() {
	switch {
	case argument(1, "") == "serve":
		go end(0)
		host, _ := os.Hostname()
		answer := func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, host) }
		fail(http.ListenAndServe(argument(2, ":8080"), http.HandlerFunc(answer)))
	case argument(1, "") == "get" && len(os.Args) > 2:
		get(os.Args[2])
	case argument(1, "") == "sleep":
		end(0)
	default:
		fmt.Fprintln(os.Stderr, "usage: probe serve [ADDRESS] | get URL [TIMES [EVERY]] | sleep")
		os.Exit(2)
	}
}

// get asks as often as it is told, each time over a new connection.
func get(url string) {
	times, err := strconv.Atoi(argument(3, "1"))
	fail(err)
	every, err := time.ParseDuration(argument(4, "1s"))
	fail(err)
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	failed := 0
	for turn := range times {
		if turn > 0 {
			time.Sleep(every)
		}
		response, err := client.Get(url)
		if err != nil {
			failed++
			fmt.Fprintln(os.Stderr, err)
			continue
		}
		io.Copy(os.Stdout, response.Body)
		response.Body.Close()
	}
	if failed > 0 {
		fmt.Fprintf(os.Stderr, "%d of %d failed\n", failed, times)
		os.Exit(1)
	}
}

func end(code int) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	<-signals
	os.Exit(code)
}

func argument(index int, otherwise string) string {
	if index < len(os.Args) {
		return os.Args[index]
	}
	return otherwise
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
