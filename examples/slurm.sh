#!/bin/bash
# A training that outlives its time limit: two minutes before the end it writes a checkpoint and puts itself back into the
# queue. sbatch examples/slurm.sh CONFIG RUN
#SBATCH --job-name=lacuna
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=1
#SBATCH --time=24:00:00
#SBATCH --signal=USR1@120
#SBATCH --requeue
#SBATCH --open-mode=append
# With GPUs: #SBATCH --gpus-per-node=2
set -u
export OMP_NUM_THREADS=${SLURM_CPUS_PER_TASK:-1}
# --signal without B: goes to the ranks, which stop and return 75. srun gives that on.
srun --kill-on-bad-exit=1 "${PYTHON:-python}" -m lacuna train "$1" --resume --out "$2"
code=$?
if [ $code -eq 75 ]; then
  scontrol requeue "$SLURM_JOB_ID"
  exit 0
fi
exit $code
