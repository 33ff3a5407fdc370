// Go needs a file of this name to find the root of the module. What is built is pinned in the files beside it.
module espalier/assets/cluster-api

go 1.26.0
