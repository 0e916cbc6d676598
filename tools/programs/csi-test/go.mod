module s3csi.local/tools/csi-test

go 1.26.0

tool github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity

require github.com/kubernetes-csi/csi-test/v5 v5.6.0
