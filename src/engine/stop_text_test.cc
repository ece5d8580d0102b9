// Tests of StopText: for every way of cutting a text into pieces the shown text must be the same.
#include "engine/stop_text.h"

#include "gtest/gtest.h"

namespace minicpm {
namespace {

std::string Shown(const std::vector<std::string>& stops, const std::string& text, size_t piece,
                  bool* stopped = nullptr) {
  StopText t(stops, 64);
  std::string shown;
  for (size_t i = 0; i < text.size() && !t.stopped(); i += piece) shown += t.Push(text.substr(i, piece));
  if (!t.stopped()) shown += t.Finish();
  if (stopped != nullptr) *stopped = t.stopped();
  EXPECT_EQ(shown, t.text());
  return shown;
}

TEST(StopText, CutsBeforeTheFirstStopHoweverTheTextArrives) {
  for (size_t piece = 1; piece <= 20; ++piece) {
    bool stopped = false;
    EXPECT_EQ(Shown({"</end>", "STOP"}, "hello </en world STO STOP and more </end>", piece, &stopped),
              "hello </en world STO ");
    EXPECT_TRUE(stopped);
  }
}

TEST(StopText, GivesBackWhatOnlyLookedLikeAStop) {
  for (size_t piece = 1; piece <= 5; ++piece) EXPECT_EQ(Shown({"abcd"}, "xxabcab", piece), "xxabcab");
}

TEST(StopText, OverlappingBeginnings) {
  for (size_t piece = 1; piece <= 5; ++piece) EXPECT_EQ(Shown({"aab"}, "aaaab!", piece), "aa");
}

TEST(StopText, HoldsBackWhatMayBecomeAStop) {
  const std::vector<std::string> stops = {"END"};
  StopText t(stops, 16);
  EXPECT_EQ(t.Push("aE"), "a");
  EXPECT_EQ(t.Push("N"), "");
  EXPECT_EQ(t.Push("x"), "ENx");
}

TEST(StopText, EmptyStopsAreIgnored) { EXPECT_EQ(Shown({""}, "abc", 1), "abc"); }

}  // namespace
}  // namespace minicpm
