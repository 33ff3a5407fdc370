"""Configuration of kube-apiserver: authentication, admission, encryption."""
