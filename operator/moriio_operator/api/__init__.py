"""The custom resource as users write it: models, names, conditions and the CRD generator."""
