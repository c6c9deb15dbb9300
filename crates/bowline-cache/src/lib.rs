//! Informers: what an API server has, kept here, indexed, and told to any number of handlers.
