import { markdownTable } from "../base/markdown-table.ts";
import { EXIT_STATUS } from "./exit-status.ts";
import { OPTIONS } from "./option-table.ts";
import type { OptionSpec } from "./option-table.ts";

const ENVIRONMENT: readonly (readonly [name: string, says: string])[] = [
  [
    "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN",
    "keys, unless --profile is given",
  ],
  ["AWS_PROFILE", "profile of the shared files (default)"],
  ["AWS_SHARED_CREDENTIALS_FILE", "file of keys (~/.aws/credentials)"],
  ["AWS_CONFIG_FILE", "looked at next (~/.aws/config)"],
  ["AWS_REGION, AWS_DEFAULT_REGION", "region that is tried first, unless --region is given"],
  ["AWS_ENDPOINT_URL, AWS_CA_BUNDLE", "as the options of these names"],
  ["HTTPS_PROXY, HTTP_PROXY, ALL_PROXY", "proxy on the way to an https, http or any endpoint"],
  ["NO_PROXY", "endpoints to reach without it: names, domains, addresses, networks, or *"],
  ["AWS_MAX_ATTEMPTS", "tries of one request that S3 breaks, 1 to 9999 (10)"],
];

/** What --help prints. */
export function usage(): string {
  const lines = [
    "usage: s3csi mount BUCKET DIRECTORY [options]",
    "",
    "Serves an S3 bucket (NAME or s3://NAME/PREFIX/) as a directory until it is unmounted.",
    "A DIRECTORY of the form /dev/fd/N is a FUSE connection that was opened and mounted before.",
  ];
  for (const [group, options] of groups()) {
    lines.push("", `${group}:`);
    for (const [name, spec] of options) {
      const short = spec.short === undefined ? "   " : `-${spec.short},`;
      lines.push(`  ${short} --${nameAndArgument(name, spec).padEnd(32)} ${spec.help}`);
    }
  }
  lines.push("", "Environment:");
  for (const [name, says] of ENVIRONMENT) lines.push(`  ${name}: ${says}`);
  return [...lines, ""].join("\n").replaceAll("`", "");
}

/** docs/options.md. */
export function optionPage(): string {
  const sections = [
    "# Options of `s3csi mount`",
    "",
    "`s3csi mount BUCKET DIRECTORY [options]`, and a volume's `mountOptions`. Made by",
    "`make gen` from `src/mount/option-table.ts`; names and meanings are mount-s3's. In brackets:",
    "the variable that is used when the option is not given, and the default. An unknown option or",
    "a wrong value is an error that names it.",
  ];
  for (const [group, options] of groups()) {
    const rows = options.map(([name, spec]) => [`\`${shown(name, spec)}\``, spec.help]);
    sections.push("", `## ${group}`, "", ...markdownTable(["Option", "Meaning"], rows));
  }
  const variables = ENVIRONMENT.map(([names, says]) => [codes(names), says]);
  sections.push("", "## Environment", "", ...markdownTable(["Variable", "Meaning"], variables), "");
  sections.push(
    "Files of keys are read again when they change, and when S3 refuses the keys. Nobody else is",
    "asked for keys: not a metadata service, not a program, not a sign-on.",
  );
  sections.push(
    "",
    "A proxy is `http://HOST:PORT` or `https://HOST:PORT`, with `USER:PASSWORD@` before the",
    "host if it wants them. An https endpoint is reached through a tunnel, so that the proxy",
    "sees its name alone; requests to an http endpoint are handed to it. `--ca-bundle` holds",
    "for an https proxy too. Small letters (`https_proxy`) do as well, and win. An entry of",
    "`NO_PROXY` is a name and all below it (`example.com`), an address, a network",
    "(`10.0.0.0/8`) or `*`; with `:PORT` it holds for that port alone.",
  );
  const statuses = Object.values(EXIT_STATUS).map(({ status, says }) => [String(status), says]);
  sections.push("", "## Exit status", "", ...markdownTable(["Status", "Meaning"], statuses), "");
  sections.push("A failed start says why in one line on stderr.", "");
  return sections.join("\n");
}

function groups(): Map<string, [name: string, spec: OptionSpec][]> {
  const found = new Map<string, [string, OptionSpec][]>();
  for (const [name, spec] of OPTIONS) {
    const options = found.get(spec.group) ?? [];
    options.push([name, spec]);
    found.set(spec.group, options);
  }
  return found;
}

function shown(name: string, spec: OptionSpec): string {
  const short = spec.short === undefined ? "" : `-${spec.short}, `;
  return `${short}--${nameAndArgument(name, spec)}`;
}

function nameAndArgument(name: string, { argument }: OptionSpec): string {
  return argument === undefined ? name : `${name} ${argument}`;
}

function codes(names: string): string {
  return names.replace(/[A-Z_]+/g, (name) => `\`${name}\``);
}
