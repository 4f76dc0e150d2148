//! Encodes overlapping codes: finds the cheapest chain (Viterbi).

use ramlet_kernels::{OwnCosts, TRELLIS_STATES, TrellisCosts, kernels};

use super::ProductModel;

/// How much worse it is to miss along the row than across.
pub(super) const ANISOTROPY: f32 = 5.0;

/// Chains looked for with a direction: the first without it, the others with ever better guesses of what is left out along it.
const GUESSES: usize = 3;

/// One thread's memory for finding chains; 1.2 KB a code.
#[derive(Debug, Default)]
pub(super) struct Chains {
    /// The squared length of each sum of two words.
    pairs: Vec<[TrellisCosts; TRELLIS_STATES]>,
    /// For each code, `-2 <r, w>` and `-<x, w>`.
    of_vector: Vec<TrellisCosts>,
    of_direction: Vec<TrellisCosts>,
    before: Vec<[u32; TRELLIS_STATES]>,
    codes: Vec<u8>,
}

impl Chains {
    pub(super) fn new(model: &ProductModel) -> Chains {
        let parts = model.shape.parts;
        let mut chains = Chains {
            pairs: vec![[[0.0; TRELLIS_STATES]; TRELLIS_STATES]; parts],
            of_vector: vec![[0.0; TRELLIS_STATES]; parts],
            of_direction: vec![[0.0; TRELLIS_STATES]; parts],
            before: vec![[0; TRELLIS_STATES]; parts],
            codes: vec![0; parts],
        };
        for (part, pairs) in chains.pairs.iter_mut().enumerate() {
            for (own, overlapped) in model.columns(part) {
                for (pairs, overlapped) in pairs.iter_mut().zip(overlapped) {
                    for (square, own) in pairs.iter_mut().zip(own) {
                        *square += (own + overlapped) * (own + overlapped);
                    }
                }
            }
        }
        chains
    }

    /// Writes the codes with which least is left out of the vector, all in all plus `ANISOTROPY` times along the direction; a weight
    /// of 0 is for vectors without one. `weight` is `ANISOTROPY` by the direction's squared length.
    pub(super) fn encode(
        &mut self,
        model: &ProductModel,
        vector: &[f32],
        (towards, weight): (&[f32], f32),
        codes: &mut [u8],
    ) {
        fill(model, vector, -2.0, &mut self.of_vector);
        let alone = OwnCosts {
            first: &self.of_vector,
            second: None,
        };
        if weight == 0.0 {
            kernels().cheapest_chain(&alone, &self.pairs, &mut self.before, codes);
            return;
        }
        fill(model, towards, -1.0, &mut self.of_direction);
        let whole = kernels().dot_f64(vector, towards) as f32;
        // `(a + b)^2` is the greatest of `2 g (a + b) - g^2`, at `g = a + b`: for a guess `g` costs are sums over codes again.
        let (mut guess, mut least) = (0.0f32, f32::INFINITY);
        for _ in 0..GUESSES {
            let factor = 2.0 * weight * guess;
            let costs = OwnCosts {
                second: Some((factor, &self.of_direction)),
                ..alone
            };
            let told = kernels().cheapest_chain(&costs, &self.pairs, &mut self.before, &mut self.codes);
            let said = self.of_direction.iter().zip(&self.codes);
            let said: f32 = said
                .map(|(entries, code)| entries[usize::from(*code) % TRELLIS_STATES])
                .sum();
            let along = whole + said;
            let cost = told - factor * said + weight * along * along;
            if cost < least {
                least = cost;
                codes.copy_from_slice(&self.codes);
            }
            // What is left out falls by about `ANISOTROPY` times the guess.
            guess += (along - guess) / (1.0 + ANISOTROPY);
        }
    }
}

/// For each code, `scale` times the product of the vector with all that each word says.
fn fill(model: &ProductModel, vector: &[f32], scale: f32, entries: &mut [TrellisCosts]) {
    let words = [&model.books, &model.overlap].map(|list| list.as_chunks::<TRELLIS_STATES>().0);
    kernels().chain_entries(vector, &model.edges, words, scale, entries);
}

impl ProductModel {
    /// For each dimension of a part, what the words of its code and of the code before say there.
    fn columns(&self, part: usize) -> impl Iterator<Item = (&TrellisCosts, &TrellisCosts)> {
        let dims = self.part(part);
        let own = &self.books.as_chunks::<TRELLIS_STATES>().0[dims.clone()];
        own.iter()
            .zip(&self.overlap.as_chunks::<TRELLIS_STATES>().0[dims])
    }
}
