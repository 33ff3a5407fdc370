"""The garden: it assigns shoots to seeds, counts their ownership epochs, and decides when a seed is given up."""
