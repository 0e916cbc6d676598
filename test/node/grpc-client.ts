import { connect } from "node:net";
import type { DescService } from "@bufbuild/protobuf";
import { createClient } from "@connectrpc/connect";
import type { Client } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";

/** Calls a service on a unix socket, as the kubelet does. */
export function grpcClient<S extends DescService>(service: S, socketPath: string): Client<S> {
  const nodeOptions = { createConnection: () => connect(socketPath) };
  return createClient(service, createGrpcTransport({ baseUrl: "http://localhost", nodeOptions }));
}
