"""What a broker does, without a protocol: values in, a result or a refusal out."""
