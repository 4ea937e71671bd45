"""JAX functions on a torch device: a jaxpr is planned once into a flat torch program. `import hajax` imports nothing of this."""
