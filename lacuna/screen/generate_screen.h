// Synthetic screens whose labels have known parts, for tests, demonstrations and benchmarks.
//
// A sample removes the two genes of a query pair and further genes (by default one) that belong to
// no pair. Sample s has query pair s mod P; the samples of a pair take the other genes in turn, so
// with three removed genes no sample is repeated. A pair shares its genes with a few other pairs.
// With two removed genes there are no query pairs: every sample is another pair of any genes.
//
//   label = mean + gene + pair + graph + module + noise
//     gene   the sum of an effect for each removed gene
//     pair   an effect for the query pair
//     graph  falls with the number of kept genes that have two or more removed in-neighbours in one
//            named edge type: what one round of message passing and a pooled threshold can express.
//            All genes have the same degrees in that type (the even type of generate_graph.h), so
//            only who is linked to whom matters
//     module  the mean over the sample's pairs of genes of an effect of their two modules, the same
//            for all pairs of such genes. Genes of a module are linked to each other in the other
//            types (the modules of generate_graph.h), so the networks tell it of a gene that no
//            training sample removes; unless it has a share, there are no modules
//     noise  normal
//
// The parts have mean 0 over the samples and the requested shares of the variance (divided by their
// sum); together they are scaled so that the labels have the mean and the sd of a published screen
// of triple mutants. A part that is the same for all samples (one sample, an interaction that never
// happens) is 0. Labels are kept within -1.08 and 1.13 by changing the noise, which moves mean and
// sd a little where the interaction is rare and strong. At yeast size the graph part is not zero in
// a sixth of the samples; a sum of pair and gene effects explains 0.33 of its variance (seed 1;
// pairs alone 0.31, because of neighbours that the two genes of a pair share), the rest needs the
// graph. tests/test_planted.py shows a model that finds it at size mini.
//
// Columns beside the label "gene_interaction": truth_gene, truth_pair, truth_graph, truth_module
// (with modules), truth_noise (f32, label = mean + their sum to rounding) and query_pair
// (categories such as "G00012+G04711"). With two removed genes there is neither query_pair nor
// truth_pair.
//
// A screen is a pure function of the options: the same bytes whatever the number of threads.
#pragma once

#include <cstdint>
#include <string>

#include "lacuna/core/system/progress.h"
#include "lacuna/graph/generate_graph.h"
#include "lacuna/screen/screen.h"

namespace lacuna {

// tiny 200, mini 3,000, small 20,000, yeast and human 332,313.
uint64_t default_samples(GraphSize size);

struct GenerateOptions {
  GraphSize size = GraphSize::yeast;
  uint64_t samples = 332'313;
  uint64_t seed = 0;
  uint32_t removed = 3;  // genes a sample removes; from 2 to 16
  // 0: 420 (tiny 20, mini and small 100), or, where that is more, twice as many as are needed to
  // keep samples distinct.
  uint32_t query_pairs = 0;
  std::string interaction_type = "physical";  // the gene-gene type of the graph part
  uint32_t modules = 10;  // of genes, where share_module is above 0; at most most_modules(size)
  double share_gene = 0.3, share_pair = 0.2, share_graph = 0.3, share_module = 0, share_noise = 0.2;
};

inline constexpr double kLabelMean = -0.0099, kLabelSd = 0.0621;
inline constexpr double kLabelMin = -1.08, kLabelMax = 1.13;

struct GeneratedScreen {
  HeteroGraph graph;
  Samples samples;
};

// Throws UsageError for shares that are negative or all zero, a number of removed genes outside 2
// to 16, an unknown interaction type, modules that are too few or too many, query pairs where two
// genes are removed, or more samples than pairs times other genes (of two genes: than half of all
// pairs). Memory: 36 bytes per sample of three genes (720 MB for 20 million), and the graph.
GeneratedScreen generate_screen(const GenerateOptions& options,
                                Progress& progress = Progress::none());

// For made_by: what the screen was made of. No modules where they have no share, no share of pairs
// where two genes are removed.
Json to_json(const GenerateOptions& options);

}  // namespace lacuna
