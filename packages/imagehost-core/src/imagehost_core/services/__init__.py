"""Services of the host: what a request passes, one module per resource."""
