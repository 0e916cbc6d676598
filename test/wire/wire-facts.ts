import type { JsonObject } from "@bufbuild/protobuf";
import { fromJson } from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import type {
  DescriptorProto,
  EnumDescriptorProto,
  FieldDescriptorProto,
  FileDescriptorProto,
} from "@bufbuild/protobuf/wkt";
import { join } from "node:path";
import { run } from "../../tools/run.ts";

const BUF = join(import.meta.dirname, "../../node_modules/.bin/buf");

/** Everything that decides how bytes look on the wire: full name → what it is. */
export type WireFacts = ReadonlyMap<string, string>;

/** The facts of the .proto files in a directory, without those of what they import. */
export async function wireFactsOf(dir: string): Promise<WireFacts> {
  const args = ["build", dir, "--exclude-imports", "-o", "-#format=json"];
  const json = JSON.parse(await run(BUF, args)) as JsonObject;
  const { file } = fromJson(FileDescriptorSetSchema, json, { ignoreUnknownFields: true });
  return new Map(file.flatMap(factsOfFile));
}

/** What we have otherwise than the official definition, or have and it has not. */
export function differences(ours: WireFacts, official: WireFacts): string[] {
  return [...ours].flatMap(([name, fact]) => {
    const theirs = official.get(name);
    return theirs === fact ? [] : [`${name}: ${fact}; official: ${theirs ?? "nothing"}`];
  });
}

type Fact = [name: string, fact: string];

function factsOfFile(file: FileDescriptorProto): Fact[] {
  const scope = file.package;
  return [
    [`package ${scope}`, file.syntax],
    ...file.messageType.flatMap((message) => factsOfMessage(scope, message)),
    ...file.enumType.flatMap((values) => factsOfEnum(scope, values)),
    ...file.service.flatMap((service) =>
      service.method.map((method): Fact => {
        const input = `${method.clientStreaming ? "stream " : ""}${method.inputType}`;
        const output = `${method.serverStreaming ? "stream " : ""}${method.outputType}`;
        return [`/${scope}.${service.name}/${method.name}`, `${input} → ${output}`];
      }),
    ),
  ];
}

function factsOfMessage(scope: string, message: DescriptorProto): Fact[] {
  const name = `${scope}.${message.name}`;
  return [
    [name, message.options?.mapEntry === true ? "map entry" : "message"],
    ...message.field.map((field): Fact => [`${name}.${field.name}`, factOfField(message, field)]),
    ...message.nestedType.flatMap((nested) => factsOfMessage(name, nested)),
    ...message.enumType.flatMap((values) => factsOfEnum(name, values)),
  ];
}

function factOfField({ oneofDecl }: DescriptorProto, field: FieldDescriptorProto): string {
  const { number, label, type, typeName, jsonName, oneofIndex, proto3Optional } = field;
  const inOneof = Object.hasOwn(field, "oneofIndex") && oneofDecl[oneofIndex]?.name;
  const facts = { number, label, type, typeName, jsonName, inOneof, proto3Optional };
  return JSON.stringify(facts);
}

function factsOfEnum(scope: string, { name, value }: EnumDescriptorProto): Fact[] {
  return value.map((one) => [`${scope}.${name}.${one.name}`, `enum value ${one.number}`]);
}
