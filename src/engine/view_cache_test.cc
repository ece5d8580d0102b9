// Tests of view_cache.h: equal pixels are found, others are not, old views go. Not for encoding.
#include "engine/view_cache.h"

#include "gtest/gtest.h"

namespace minicpm {
namespace {

Image Grey(int width, int height, uint8_t value) {
  return {width, height, std::vector<uint8_t>(static_cast<size_t>(3 * width * height), value)};
}

TEST(ViewCache, FindsEqualPixelsAtAnyPlaceAndNothingElse) {
  ViewCache cache(0);
  cache.BeginPicture();
  cache.Insert(Grey(4, 2, 7), {1, 2, 1}, {1.0f, 2.0f});
  const auto* rows = cache.Find(Grey(4, 2, 7), {0, 0, 0});
  ASSERT_NE(rows, nullptr);
  EXPECT_EQ(*rows, (std::vector<float>{1.0f, 2.0f}));
  EXPECT_EQ(cache.Find(Grey(2, 4, 7), {1, 2, 1}), nullptr) << "another shape of the same bytes";
  EXPECT_EQ(cache.Find(Grey(4, 2, 8), {1, 2, 1}), nullptr);
}

TEST(ViewCache, ForgetsWhatThePictureBeforeDidNotUse) {
  ViewCache cache(0);
  cache.BeginPicture();
  cache.Insert(Grey(1, 1, 1), {}, {1.0f});
  cache.Insert(Grey(1, 1, 2), {}, {2.0f});
  cache.BeginPicture();
  EXPECT_NE(cache.Find(Grey(1, 1, 1), {}), nullptr);
  cache.BeginPicture();
  EXPECT_NE(cache.Find(Grey(1, 1, 1), {}), nullptr);
  EXPECT_EQ(cache.Find(Grey(1, 1, 2), {}), nullptr);
}

TEST(ViewCache, NoiseIsMeasuredFromTheEncodedPixelsAtTheSamePlace) {
  ViewCache cache(2);
  const ViewCache::Place place{0, 1, 1};
  cache.BeginPicture();
  cache.Insert(Grey(3, 3, 100), place, {1.0f});
  cache.BeginPicture();
  EXPECT_NE(cache.Find(Grey(3, 3, 102), place), nullptr);
  EXPECT_EQ(cache.Find(Grey(3, 3, 102), {1, 1, 1}), nullptr) << "another place";
  cache.BeginPicture();
  EXPECT_EQ(cache.Find(Grey(3, 3, 104), place), nullptr) << "drift must add up";
}

}  // namespace
}  // namespace minicpm
