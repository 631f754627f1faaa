"""The gRPC door: clients of RocketMQ 5. Source: org.apache.rocketmq.proxy.grpc.v2."""
