// Which failure domains keep copies for each other, in closed groups: the placement of Gemini
// (Wang et al., SOSP 2023), here for domains of any level. Pure.
//
// With `copies` copies a state is lost with copies + 1 domains at the least. In groups of
// copies + 1 that hold each other's copies there is one such set for each group, which is the
// fewest that there can be: every domain is in one at least. Where the number of domains is no
// multiple, the last copies + 1 and the remainder keep theirs around a ring.
#pragma once

#include <vector>

namespace evermoe {

// By domain: the `copies` others that keep its copies. REQUIRES: 0 < copies < domains. Members of a
// group are as far apart as they can be, because neighbours play the same stage.
std::vector<std::vector<int>> holder_groups(int domains, int copies);

// Whose copies go to whom from one domain to another one that has as many ranks: `stages` are those
// of their ranks. Returns for each rank of the first which one of the second, each once; few of the
// same stage.
std::vector<int> pair_across_stages(const std::vector<int>& stages,
                                    const std::vector<int>& holder_stages);

}  // namespace evermoe
