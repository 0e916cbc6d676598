import { create, createFileRegistry } from "@bufbuild/protobuf";
import type { DescService, MessageInitShape } from "@bufbuild/protobuf";
import {
  FieldDescriptorProto_Label,
  FieldDescriptorProto_Type as Type,
  FileDescriptorProtoSchema,
} from "@bufbuild/protobuf/wkt";

type FileInit = Exclude<MessageInitShape<typeof FileDescriptorProtoSchema>, { $typeName: string }>;
type MessageInit = NonNullable<FileInit["messageType"]>[number];

const label = FieldDescriptorProto_Label.OPTIONAL;
const text = (name: string, number: number) => ({ name, number, label, type: Type.STRING });
const message = (name: string, ...field: object[]): MessageInit => ({ name, field });
const method = (name: string) => ({
  name,
  inputType: `.csi.v1.${name}Request`,
  outputType: `.csi.v1.${name}Response`,
});
const volume = { name: "volume", number: 1, label, type: Type.MESSAGE, typeName: ".csi.v1.Volume" };

/** Of CSI's Controller service, what csi-sanity's Node cases need to come by a volume. */
const FILE: FileInit = {
  name: "test/csi-controller.proto",
  package: "csi.v1",
  syntax: "proto3",
  messageType: [
    message("CreateVolumeRequest", text("name", 1)),
    message("Volume", text("volume_id", 2)),
    message("CreateVolumeResponse", volume),
    message("DeleteVolumeRequest", text("volume_id", 1)),
    message("DeleteVolumeResponse"),
    message("ControllerGetCapabilitiesRequest"),
    message("ControllerGetCapabilitiesResponse"),
  ],
  service: [
    {
      name: "Controller",
      method: ["CreateVolume", "DeleteVolume", "ControllerGetCapabilities"].map(method),
    },
  ],
};

export const Controller: DescService = controllerOf(FILE);

function controllerOf(file: FileInit): DescService {
  const registry = createFileRegistry(create(FileDescriptorProtoSchema, file), () => undefined);
  const service = registry.getService("csi.v1.Controller");
  if (service === undefined) throw new Error("no Controller in its own description");
  return service;
}
