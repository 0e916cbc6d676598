import net from "node:net";
import { networkInterfaces } from "node:os";
import { Failure } from "../base/failure.ts";
import { AwayFailure } from "./retry.ts";

export interface LocalEnd {
  readonly localAddress: string;
  readonly family: 4 | 6;
}

/** The local end for the next connection to a host. Throws AwayFailure while there is none. */
export type LocalBinding = (host: string) => LocalEnd;

type Interfaces = ReturnType<typeof networkInterfaces>;

/**
 * Connections start in turn from the addresses of the named interfaces, or from the addresses
 * themselves. A host that is an address gets a local end of its own family, a name the first one.
 * The addresses are looked up for each connection: DHCP may change them, and an interface may be
 * down for a while.
 */
export function localBindingOf(
  names: readonly string[],
  interfacesNow: () => Interfaces = networkInterfaces,
): LocalBinding {
  let turn = 0;
  return (host) => {
    const interfaces = interfacesNow();
    const ends = names.map((name) => endsOf(name, interfaces));
    const first = [4, 6].find((family) => ends.flat().some((end) => end.family === family));
    const family = net.isIP(host) || first;
    const usable = ends.flatMap((some) => some.find((end) => end.family === family) ?? []);
    const chosen = usable[turn++ % usable.length] ?? ends.flat()[0];
    if (chosen !== undefined) return chosen;
    const wanted = names.join(", ");
    const known = Object.keys(interfaces).join(", ");
    throw new AwayFailure(
      `--bind ${wanted}: no such network interface or address now; interfaces are ${known}`,
    );
  };
}

/** Throws when one of the names is no interface and no address of this machine. */
export function checkBinding(names: readonly string[], interfaces = networkInterfaces()): void {
  const wrong = names.find((name) => endsOf(name, interfaces).length === 0);
  if (wrong === undefined) return;
  const known = Object.keys(interfaces).join(", ");
  throw new Failure(
    "invalid",
    `--bind ${wrong}: no network interface or address of this machine; interfaces are ${known}`,
  );
}

function endsOf(name: string, interfaces: Interfaces): LocalEnd[] {
  const all = Object.entries(interfaces).flatMap(([of, addresses = []]) => {
    return addresses.map(({ address }) => ({ of, address }));
  });
  const found = all.filter(({ of, address }) => {
    return address === name || (of === name && !address.startsWith("fe80:"));
  });
  return found.map(({ address }) => {
    return { localAddress: address, family: net.isIPv6(address) ? 6 : 4 } as const;
  });
}
