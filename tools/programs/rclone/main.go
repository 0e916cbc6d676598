// rclone with the one backend and the one command that the benchmark needs: all of them take
// minutes to compile and twice the space.
package main

import (
	_ "github.com/rclone/rclone/backend/s3"
	"github.com/rclone/rclone/cmd"
	_ "github.com/rclone/rclone/cmd/mount"
	_ "github.com/rclone/rclone/cmd/version"
)

func main() {
	cmd.Main()
}
