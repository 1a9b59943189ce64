"""Model servers: what is sent to them, what comes back, and one module per wire protocol."""
