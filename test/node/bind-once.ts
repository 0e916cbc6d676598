import { bindMount } from "../../src/sys/bind-mount.ts";

const [, , source = "", target = "", mode] = process.argv;
bindMount(source, target, { readOnly: mode === "ro" });
