"""The operations of a broker, without a protocol: values in, a result or a refusal out."""
