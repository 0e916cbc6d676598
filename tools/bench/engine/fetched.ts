import type { Figures } from "../part.ts";
import type { Arena } from "./arena.ts";
import { CASES } from "./cases.ts";
import { ourEngine } from "./contenders.ts";
import { CountingProxy } from "./counting-proxy.ts";
import { Mounted } from "./mounted.ts";

/** How much we fetch for one random read of 4 KiB, the worse of both cases. Not timed. */
export async function fetchedPerRead(arena: Arena): Promise<Figures> {
  await using proxy = await CountingProxy.start(arena.access.endpoint);
  const ours = await ourEngine({ ...arena.access, endpoint: proxy.endpoint });
  let most = 0;
  for (const { name, amount, work } of CASES) {
    if (!name.startsWith("rand") || !("operations" in amount)) continue;
    await using mounted = await Mounted.start(arena, ours);
    const before = proxy.receivedBytes;
    const { directory } = mounted;
    await work({ directory, store: arena.store, id: "fetched", source: "" });
    most = Math.max(most, (proxy.receivedBytes - before) / 1024 / amount.operations);
  }
  return { rand_fetched_kib_per_read: most };
}
