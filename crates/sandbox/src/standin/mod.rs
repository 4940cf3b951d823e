//! Stand-ins: small servers that behave, on the wire, like a database.
