#include "lacuna/run/evaluation/network/pair_features.h"

#include <algorithm>
#include <cmath>

#include "lacuna/core/error.h"
#include "lacuna/core/system/stop.h"
#include "lacuna/core/system/threads.h"

namespace lacuna {
namespace {

constexpr double kShrinkage = 0.05;
constexpr uint64_t kBlock = 1024;  // genes or samples between two words of progress

// The different pairs of all samples, and who has them.
struct PairTable {
  std::vector<uint64_t> keys;        // [P] ascending: first gene << 32 | second
  std::vector<uint64_t> sample_ptr;  // [S + 1]
  std::vector<uint32_t> of_sample;   // pairs of sample s: (0, 1), (0, 2), ..., (1, 2), ...
  std::vector<double> sum, weight;   // [P] Z and W

  uint64_t size() const { return keys.size(); }
  uint32_t first(uint64_t pair) const { return uint32_t(keys[pair] >> 32); }
  uint32_t second(uint64_t pair) const { return uint32_t(keys[pair]); }
};

template <class F>
void for_each_key(std::span<const uint32_t> genes, F&& f) {
  for (size_t i = 0; i < genes.size(); ++i)
    for (size_t j = i + 1; j < genes.size(); ++j) f(uint64_t(genes[i]) << 32 | genes[j]);
}

PairTable make_pairs(const Indicators& sets, const TrainingResiduals& training) {
  PairTable pairs;
  for (uint64_t s = 0; s < sets.size(); ++s)
    for_each_key(sets.of(s), [&](uint64_t key) { pairs.keys.push_back(key); });
  std::sort(pairs.keys.begin(), pairs.keys.end(), [](uint64_t a, uint64_t b) {
    throw_if_stopped();
    return a < b;
  });
  pairs.keys.erase(std::unique(pairs.keys.begin(), pairs.keys.end()), pairs.keys.end());
  pairs.keys.shrink_to_fit();
  pairs.sum.assign(pairs.size(), 0.0);
  pairs.weight.assign(pairs.size(), 0.0);
  pairs.sample_ptr = {0};
  for (uint64_t s = 0; s < sets.size(); ++s) {
    throw_if_stopped();
    for_each_key(sets.of(s), [&](uint64_t key) {
      const auto at = std::lower_bound(pairs.keys.begin(), pairs.keys.end(), key);
      const auto pair = uint32_t(at - pairs.keys.begin());
      pairs.of_sample.push_back(pair);
      if (s >= training.residual.size()) return;
      pairs.sum[pair] += training.weight[s] * training.residual[s];
      pairs.weight[pair] += training.weight[s];
    });
    pairs.sample_ptr.push_back(pairs.of_sample.size());
  }
  return pairs;
}

// The partners of every gene: all of them, and those that it was measured with in training.
struct Partners {
  std::vector<uint64_t> ptr, measured_ptr;  // [N + 1]
  std::vector<uint32_t> pair;               // [ptr[N]]
  std::vector<uint32_t> gene;               // [measured_ptr[N]]
  std::vector<double> sum, weight;          // [measured_ptr[N]] Z and W
};

Partners make_partners(const PairTable& pairs, uint32_t genes) {
  Partners partners;
  partners.ptr.assign(genes + 1, 0);
  partners.measured_ptr.assign(genes + 1, 0);
  for (uint64_t p = 0; p < pairs.size(); ++p)
    for (const uint32_t gene : {pairs.first(p), pairs.second(p)}) {
      ++partners.ptr[gene + 1];
      partners.measured_ptr[gene + 1] += pairs.weight[p] > 0;
    }
  for (uint32_t gene = 0; gene < genes; ++gene) {
    partners.ptr[gene + 1] += partners.ptr[gene];
    partners.measured_ptr[gene + 1] += partners.measured_ptr[gene];
  }
  partners.pair.resize(partners.ptr[genes]);
  partners.gene.resize(partners.measured_ptr[genes]);
  partners.sum.resize(partners.gene.size());
  partners.weight.resize(partners.gene.size());
  std::vector<uint64_t> next = partners.ptr, next_measured = partners.measured_ptr;
  const auto add = [&](uint64_t p, uint32_t gene, uint32_t other) {
    partners.pair[next[gene]++] = uint32_t(p);
    if (!(pairs.weight[p] > 0)) return;
    const uint64_t at = next_measured[gene]++;
    partners.gene[at] = other;
    partners.sum[at] = pairs.sum[p];
    partners.weight[at] = pairs.weight[p];
  };
  for (uint64_t p = 0; p < pairs.size(); ++p) {
    add(p, pairs.first(p), pairs.second(p));
    add(p, pairs.second(p), pairs.first(p));
  }
  return partners;
}

// Sums over n of K[a,n] Z[n,b] and K[a,n] W[n,b].
struct Propagated {
  double sum = 0, weight = 0;
};

// What one network says of a pair (a, b), a < b.
struct PairValues {
  double strength = 0, product = 0, cosine = 0;  // A, L L, C
  Propagated forward, backward;                  // from a to b, from b to a

  double kernel() const { return cosine > 0 ? cosine * cosine : 0.0; }
};

class NetworkPass {
 public:
  NetworkPass(const GeneNetwork& network, const PairTable& pairs, const Partners& partners,
              const TrainingResiduals& training)
      : network_(network),
        pairs_(pairs),
        partners_(partners),
        training_(training),
        values_(pairs.size()) {}

  bool has_work(uint32_t gene) const { return partners_.ptr[gene] < partners_.ptr[gene + 1]; }

  // All that needs row `gene` of K. Returns the effect of its neighbours where it was never seen.
  double walk_row(uint32_t gene) {
    const uint32_t genes = network_.size();
    thread_local std::vector<double> strengths, products, kernel;
    strengths.resize(genes);
    products.resize(genes);
    kernel.resize(genes);
    network_.read_row(gene, strengths, products);
    for (uint32_t n = 0; n < genes; ++n) {
      const double cosine = products[n] / (network_.length[gene] * network_.length[n]);
      kernel[n] = cosine > 0 ? cosine * cosine : 0.0;
    }
    kernel[gene] = 0;
    for (uint64_t i = partners_.ptr[gene]; i < partners_.ptr[gene + 1]; ++i) {
      const uint32_t pair = partners_.pair[i];
      PairValues& values = values_[pair];
      const bool is_first = pairs_.first(pair) == gene;
      const uint32_t other = is_first ? pairs_.second(pair) : pairs_.first(pair);
      (is_first ? values.forward : values.backward) = propagate(kernel, other);
      if (!is_first) continue;  // the rest is the same from both ends
      values.strength = strengths[other];
      values.product = products[other];
      values.cosine = products[other] / (network_.length[gene] * network_.length[other]);
    }
    return training_.is_seen[gene] ? 0.0 : neighbours_effect(kernel);
  }

  // The columns of a sample: [kColumnsOfNetwork]
  void sample_columns(uint64_t sample, std::span<const uint32_t> genes,
                      std::span<float> columns) const {
    const size_t count = genes.size();
    const uint32_t* own = pairs_.of_sample.data() + pairs_.sample_ptr[sample];
    double sums[kColumnsOfNetwork] = {};
    for (size_t i = 0, at = 0; i < count; ++i)
      for (size_t j = i + 1; j < count; ++j, ++at) {
        const PairValues& pair = values_[own[at]];
        const uint32_t a = genes[i], b = genes[j];
        const double degrees = network_.degree[a] * network_.degree[b];
        const double log_a = network_.log_links[a], log_b = network_.log_links[b];
        sums[0] += pair.strength;
        sums[1] += pair.strength > 0 ? pair.strength / std::sqrt(degrees) : 0.0;
        sums[2] += pair.product;
        sums[3] += pair.cosine;
        sums[4] += degrees;
        sums[5] += log_a + log_b;
        sums[6] += log_a * log_b;
        sums[7] += from(own, count, i, j, pair.forward) + from(own, count, j, i, pair.backward);
      }
    const double pairs = double(count) * double(count - 1) / 2;
    for (size_t c = 0; c < kColumnsOfNetwork; ++c) columns[c] = float(sums[c] / pairs);
  }

 private:
  Propagated propagate(const std::vector<double>& kernel, uint32_t other) const {
    Propagated all;
    for (uint64_t i = partners_.measured_ptr[other]; i < partners_.measured_ptr[other + 1]; ++i) {
      const double like = kernel[partners_.gene[i]];
      all.sum += like * partners_.sum[i];
      all.weight += like * partners_.weight[i];
    }
    return all;
  }

  double neighbours_effect(const std::vector<double>& kernel) const {
    double sum = 0, weight = 0;
    for (uint32_t n = 0; n < network_.size(); ++n) {
      if (!training_.is_seen[n]) continue;
      sum += kernel[n] * training_.effect[n];
      weight += kernel[n];
    }
    return sum / (weight + kShrinkage);
  }

  // Where the pair of its genes i and j stands among those of a sample of `count` genes.
  static size_t place(size_t count, size_t i, size_t j) {
    if (i > j) std::swap(i, j);
    return i * (2 * count - i - 1) / 2 + (j - i - 1);
  }

  // from(a, b) for genes i and j of a sample, without the sample's own genes among n.
  double from(const uint32_t* own, size_t count, size_t i, size_t j, Propagated all) const {
    for (size_t n = 0; n < count; ++n) {
      if (n == i || n == j) continue;
      const double like = values_[own[place(count, i, n)]].kernel();
      const uint32_t other = own[place(count, n, j)];
      all.sum -= like * pairs_.sum[other];
      all.weight -= like * pairs_.weight[other];
    }
    return all.sum / (all.weight + kShrinkage);
  }

  const GeneNetwork& network_;
  const PairTable& pairs_;
  const Partners& partners_;
  const TrainingResiduals& training_;
  std::vector<PairValues> values_;  // [P]
};

}  // namespace

PairFeatures pair_features(std::span<const GeneNetwork> networks, const Indicators& sets,
                           const TrainingResiduals& training, Progress& progress, int threads) {
  const auto genes = uint32_t(training.effect.size());
  LACUNA_ASSERT(training.residual.size() <= sets.size());
  LACUNA_ASSERT(training.weight.size() == training.residual.size());
  const PairTable pairs = make_pairs(sets, training);
  const Partners partners = make_partners(pairs, genes);
  PairFeatures features = {.columns = networks.size() * kColumnsOfNetwork,
                           .values = {},
                           .neighbours_effect = std::vector<double>(genes, 0.0)};
  features.values.assign(sets.size() * features.columns, 0.f);
  progress.begin("similar genes over each network", networks.size() * genes, "genes");
  for (size_t k = 0; k < networks.size(); ++k) {
    NetworkPass pass(networks[k], pairs, partners, training);
    for (uint64_t begin = 0; begin < genes; begin += kBlock) {
      parallel_for(std::min<uint64_t>(kBlock, genes - begin), threads, [&](uint64_t i) {
        const auto gene = uint32_t(begin + i);
        if (pass.has_work(gene))
          features.neighbours_effect[gene] += pass.walk_row(gene) / double(networks.size());
      });
      progress.advance(k * genes + std::min<uint64_t>(begin + kBlock, genes));
    }
    parallel_for((sets.size() + kBlock - 1) / kBlock, threads, [&](uint64_t block) {
      const uint64_t end = std::min(sets.size(), (block + 1) * kBlock);
      for (uint64_t s = block * kBlock; s < end; ++s) {
        if (sets.of(s).size() < 2) continue;
        float* row = features.values.data() + s * features.columns;
        pass.sample_columns(s, sets.of(s), {row + k * kColumnsOfNetwork, kColumnsOfNetwork});
      }
    });
  }
  progress.end();
  return features;
}

}  // namespace lacuna
