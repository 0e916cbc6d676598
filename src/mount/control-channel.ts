import { Failure } from "../base/failure.ts";
import { parseJson } from "../base/parse-json.ts";
import { readControlMessage } from "../supervisor/control-messages.ts";
import type { EngineMessage, Start } from "../supervisor/control-messages.ts";
import { ParentLine } from "../supervisor/parent-line.ts";

export interface Control {
  readonly started: Promise<Start>;
  readonly mounted: Promise<void>;
  /** `orphaned`: the parent has died without a word, and another engine may take over. */
  readonly finishing: Promise<"finish" | "orphaned">;
  /** Called for each change of the keys, also for one that came before it was set. */
  onRekey(listener: (credentials: Start["credentials"]) => void): void;
}

export function listen(): Control {
  const parent = ParentLine.open();
  if (parent === undefined) {
    throw new Failure("invalid", "an engine is started by `s3csi mount` or in a Mountpoint Pod");
  }
  const started = Promise.withResolvers<Start>();
  const mounted = Promise.withResolvers<void>();
  const finishing = Promise.withResolvers<"finish" | "orphaned">();
  const rekeying = Promise.withResolvers<(credentials: Start["credentials"]) => void>();
  const take = (text: string) => {
    try {
      const message = readControlMessage(parseJson(text));
      if (message.do === "start") return started.resolve(message);
      if (message.do === "serve") return mounted.resolve();
      if (message.do === "ask") return void parent.tell({ did: "alive" });
      if (message.do === "rekey") {
        return void rekeying.promise.then((listener) => listener(message.credentials));
      }
      started.reject(new Failure("refused", "told to finish before it began"));
      finishing.resolve("finish");
    } catch (error) {
      started.reject(error);
    }
  };
  parent.listen(take, () => {
    started.reject(new Failure("refused", "the mounter left before it said what to serve"));
    finishing.resolve("orphaned");
  });
  return {
    started: started.promise,
    mounted: mounted.promise,
    finishing: finishing.promise,
    onRekey: rekeying.resolve,
  };
}

/** Resolves when the message is on its way, or when there is nobody to read it. */
export async function tell(message: EngineMessage): Promise<void> {
  await ParentLine.open()?.tell(message);
}
