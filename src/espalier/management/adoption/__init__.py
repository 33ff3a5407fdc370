"""The take-over of clusters that EKS Anywhere made (decision 0236)."""
