module espalier/assets/probe

go 1.26
