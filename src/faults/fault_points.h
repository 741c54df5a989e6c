// The named points (base/fault_point.h) at which a fault script can fire.
//
// A step is under way from its first forward until the next step's, so an evaluation and a durable
// checkpoint after step n still belong to step n.
#pragma once

#include <string>
#include <string_view>

namespace evermoe {

struct KnownFaultPoint {
  const char* name;
  const char* meaning;
};

// In the order in which a worker passes them.
inline constexpr KnownFaultPoint kFaultPoints[] = {
    {"step/forward", "before the forward of each round, also of one without a micro-batch"},
    {"step/backward", "before the backward of each round"},
    {"step/accumulated", "the gradients of all rounds are accumulated, none is reduced"},
    {"step/before_verdict", "the gradients are reduced, this rank's findings are not sent"},
    {"commit/reduced",
     "what the ranks found is added up, for a step or an evaluation; nothing is committed"},
    {"step/after_verdict", "the verdict is known, nothing is updated"},
    {"step/updated", "master weights are updated, compute weights are not gathered"},
    {"evaluate/batch", "between a batch of an evaluation and its commit"},
    {"step/save", "before the files of a durable checkpoint are written"},
    {"save/copying", "checkfreq: before each operator is copied for a durable checkpoint"},
    {"close/saved", "at the end: what this rank could save is saved, the others do not know of it"},
    {"capture/copied", "a chunk of a snapshot is copied, nobody else has it"},
    {"capture/sent", "a chunk is sent to a peer, which has not acknowledged it"},
    {"copy/stored", "a peer's chunk is stored here, not yet acknowledged"},
    {"recovery/stopped", "the step is stopped, what this worker holds is not reported"},
    {"recovery/plan", "the plan has arrived, nothing of it is done"},
    {"recovery/opening", "told of the new view's peers, nothing is restored"},
    {"recovery/restored", "the snapshots are in place, no step is run again"},
    {"catch_up/step", "before each step that is run again"},
    {"catch_up/update", "before each update that is made again from kept gradients"},
    {"catch_up/verified", "the recomputed state is the one set aside, training has not gone on"},
    {"lanes/change", "other lanes train from this state on, nothing of it has moved"},
    {"lanes/changed", "it has moved, training has not gone on"},
    {"experts/move", "experts go to other lanes at this state, nothing has moved"},
    {"experts/moved", "they have moved, training has not gone on"},
    {"move/copying", "this role is to leave, nothing of it is given away"},
    {"move/hand_over", "this role stops here, its last state is not given away"},
    {"move/handed_over", "the joiner has its whole state, and its process still lives"},
};

bool is_known_fault_point(std::string_view name);
// Passed beside the step, in another thread: those of captures and copies, and of copying for a
// save. Whether one is passed while a given step is under way is chance.
bool is_beside_the_step(std::string_view name);
// Passed by the thread that trains, between two operations on the state.
bool is_between_updates(std::string_view name);
// Those, separated by commas.
std::string fault_points_between_updates();
// Passed by that thread right before it computes what a rank sends on, or adds to gradients.
bool is_before_computing(std::string_view name);
// Those, separated by commas.
std::string fault_points_before_computing();
// All names, separated by commas.
std::string known_fault_point_names();

}  // namespace evermoe
