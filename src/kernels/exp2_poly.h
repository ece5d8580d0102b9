// The polynomial behind 2^x of every instruction set's softmax. Constants only: files of an instruction set share no
// inline function with the rest.
#pragma once

namespace minicpm::kernels {

// 2^r = sum of kExp2Poly[i] * r^(6 - i), |r| <= 1/2, relative error 2e-9 (fitted); evaluated by fused multiply-adds.
inline constexpr float kExp2Poly[7] = {0.00015353351773228496f,
                                       0.0013398887822404504f,
                                       0.009618437848985195f,
                                       0.055503323674201965f,
                                       0.24022647738456726f,
                                       0.6931471824645996f,
                                       1.0f};

}  // namespace minicpm::kernels
