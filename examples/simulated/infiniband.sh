#!/bin/sh
# Makes a directory of the shape of /sys/class/infiniband: a simulated fabric.
# Usage: infiniband.sh DIRECTORY [PORTS] [GBIT/S] [SUBNET PREFIX]
set -eu
dir=$1 ports=${2:-8} rate=${3:-400} prefix=${4:-fe80:0000:0000:0000}
i=0
while [ "$i" -lt "$ports" ]; do
  port=$dir/mlx5_$i/ports/1
  mkdir -p "$port/gids"
  echo InfiniBand >"$port/link_layer"
  echo "4: ACTIVE" >"$port/state"
  echo "5: LinkUp" >"$port/phys_state"
  echo "$rate Gb/sec (4X)" >"$port/rate"
  echo "$prefix:b83f:d203:00ae:000$i" >"$port/gids/0"
  i=$((i + 1))
done
