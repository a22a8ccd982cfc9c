# seeds.sh COMMAND...: the command for 20 seeds, until it fails.
for seed in $(seq 20); do
  "$@" --seed $seed || exit
done
