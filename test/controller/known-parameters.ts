/** The parameters of a StorageClass, as the errors about unknown ones list them. */
export const PARAMETERS = [
  "authenticationSource, bucketName, bucketNamePrefix, onDelete, prefix, region",
  "mountpointContainerResourcesRequestsCpu, mountpointContainerResourcesRequestsMemory",
  "mountpointContainerResourcesLimitsCpu, mountpointContainerResourcesLimitsMemory",
  "cache, cacheEmptyDirSizeLimit, cacheEmptyDirMedium",
  "cacheEphemeralStorageClassName, cacheEphemeralStorageResourceRequest",
  "mountpointPodServiceAccountName",
].join(", ");
