// Go needs a file of this name to find the root of the module. What is built is pinned in the files beside it.
module espalier/assets/coredns

go 1.26.0
