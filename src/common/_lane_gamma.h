/* ln Gamma and psi over vectors, for the leaves that include this: LANE_GAMMA is the name that the function
 * gets, LANE_LOG that of the logarithm. */

/* ln Gamma(x) and its derivative for x > 0, by Stirling's series after a shift to x >= 10, where six terms
 * are exact */
TARGET static inline void LANE_GAMMA(LANE x, LANE *log_gamma, LANE *digamma)
{
    /* x (x + 1) ... as far as the shift goes, and its derivative */
    LANE product = ALL(LANE, 1.0), slope = ALL(LANE, 0.0);
    double each[W], least;
    *(LANE *)each = x;
    least = each[0];
    for (int i = 1; i < W; i++)
        least = each[i] < least ? each[i] : least;
    for (; least < 10.0; least += 1.0) {
        const LANE one = PICK(x < 10.0, ALL(LANE, 1.0)), factor = PICK(x < 10.0, x) + (1.0 - one);
        slope = slope * factor + one * product;
        product *= factor;
        x += one;
    }
    const LANE r = 1.0 / x, s = r * r, log_x = LANE_LOG(x);
    const LANE series
        = r * (1.0 / 12
               - s * (1.0 / 360
                      - s * (1.0 / 1260 - s * (1.0 / 1680 - s * (1.0 / 1188 - s * (691.0 / 360360))))));
    const LANE change
        = s * (1.0 / 12
               - s * (1.0 / 120 - s * (1.0 / 252 - s * (1.0 / 240 - s * (1.0 / 132 - s * (691.0 / 32760))))));
    *log_gamma = series + ((x - 0.5) * log_x - x + HALF_LN_2PI) - LANE_LOG(product);
    *digamma = log_x - 0.5 * r - change - slope / product;
}
