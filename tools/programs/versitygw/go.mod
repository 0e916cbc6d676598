module s3csi.local/tools/versitygw

go 1.26.0

tool github.com/versity/versitygw/cmd/versitygw

require github.com/versity/versitygw v1.8.0
