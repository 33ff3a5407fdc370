module espalier/assets/pause

go 1.26
