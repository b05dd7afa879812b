"""The values that pass between the packages: frozen, without input or output, and independent of the other packages."""
