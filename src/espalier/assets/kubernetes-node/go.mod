// Go needs a file of this name to find the root of the module. What is built is pinned in the files beside it.
module espalier/assets/kubernetes-node

go 1.26.0
