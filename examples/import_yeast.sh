#!/usr/bin/env bash
# Imports real tables of S. cerevisiae as one screen: nine networks, metabolism, two screens of double mutants.
#
#   examples/import_yeast.sh DATA OUT [more options of lacuna import screen]
#
# DATA holds genes.tsv, networks/, metabolism/ and screens/; their columns are named below. LACUNA is the program, where
# it is not build/lacuna.
set -euo pipefail
data=${1:?"usage: $0 DATA OUT"} out=${2:?"usage: $0 DATA OUT"}
lacuna=${LACUNA:-$(dirname "$0")/../build/lacuna}
networks=$data/networks screens=$data/screens metabolism=$data/metabolism

exec "$lacuna" import screen "$out" \
  --genes "$data/genes.tsv,gene=gene,alias=name" \
  --network "activation=$networks/activation.tsv.gz,directed" \
  --network "binding=$networks/binding.tsv.gz,directed" \
  --network "coexpression=$networks/coexpression.tsv.gz,weight=weight" \
  --network "cooccurence=$networks/cooccurence.tsv.gz,weight=weight" \
  --network "database=$networks/database.tsv.gz,weight=weight" \
  --network "experimental=$networks/experimental.tsv.gz,weight=weight" \
  --network "fusion=$networks/fusion.tsv.gz,weight=weight" \
  --network "neighborhood=$networks/neighborhood.tsv.gz,weight=weight" \
  --network "physical=$networks/physical.tsv.gz,weight=weight" \
  --reactions "$metabolism/reactions.tsv.gz,reaction=rxn,rule=grRule,numbers=lb+ub" \
  --stoichiometry "$metabolism/stoichiometry.tsv.gz,reaction=rxn,metabolite=met,coefficient=coef" \
  --features "fitness=$data/single_mutant_fitness.tsv.gz,missing=nan" \
  --samples "costanzo2010=$screens/costanzo2010.tsv.gz,removed=gene_a+gene_b,label=score,numbers=sd+p,categories=allele_a+allele_b" \
  --samples "collins2007=$screens/collins2007.tsv.gz,removed=gene_a+gene_b,label=score,numbers=sd+p,categories=allele_a+allele_b" \
  --unknown drop "${@:3}"
