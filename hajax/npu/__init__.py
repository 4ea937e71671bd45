"""JAX functions on a torch device: a jaxpr is planned once into a flat torch program. Nothing here is imported by `import hajax`."""
