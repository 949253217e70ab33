/* Numbers of the mixture with feature selection. */
#ifndef CRAFTC_MIXTURE_CONSTANTS_H
#define CRAFTC_MIXTURE_CONSTANTS_H

#define MX_DUST 0x1p-60         /* smaller probabilities are rounded to 0, since any sum would lose them */
#define MX_CERTAIN 41.58883083359672    /* -ln MX_DUST */
#define MX_ABOVE 0x1p-20        /* relative, more than norms and floats are rounded by */
#define HALF_LN_2PI 0.91893853320467274178
#define LN_2PI (2.0 * HALF_LN_2PI)
#define MU_TILE 8               /* columns of a tile; sums over columns are added in as many parts */

#endif
