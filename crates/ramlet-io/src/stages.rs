//! A thread's time and reads, stage by stage.

/// What a search is doing. Its thread is in one stage at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SearchStage {
    /// Resolving a filter on payload indexes.
    Filter,
    /// Ranking centroids.
    Centroids,
    /// Finding the positions of single rows.
    Positions,
    /// Comparing codes; of a graph without them, choosing the nodes to visit.
    Codes,
    /// Comparing rows: rescoring, where codes were compared before.
    Rows,
    /// Lists of words, and of a sparse vector's dimensions.
    Lists,
    /// Asking payloads what no index answers.
    Payloads,
    /// None of the others.
    #[default]
    Other,
}

impl SearchStage {
    /// In the order in which a search comes to them.
    pub const ALL: [SearchStage; 8] = [
        SearchStage::Filter,
        SearchStage::Centroids,
        SearchStage::Positions,
        SearchStage::Codes,
        SearchStage::Rows,
        SearchStage::Lists,
        SearchStage::Payloads,
        SearchStage::Other,
    ];
}

/// What went into one stage, or into several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StageUse {
    /// Waiting included.
    pub ns: u64,
    /// Of these, waiting for reads.
    pub waited_ns: u64,
    pub reads: u64,
    pub bytes: u64,
}

impl StageUse {
    pub fn add(&mut self, other: &StageUse) {
        self.ns += other.ns;
        self.waited_ns += other.waited_ns;
        self.reads += other.reads;
        self.bytes += other.bytes;
    }

    /// What is left without `other`; nothing is less than zero.
    #[must_use]
    pub fn without(&self, other: &StageUse) -> StageUse {
        StageUse {
            ns: self.ns.saturating_sub(other.ns),
            waited_ns: self.waited_ns.saturating_sub(other.waited_ns),
            reads: self.reads.saturating_sub(other.reads),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }

    #[must_use]
    pub fn times(&self, n: u64) -> StageUse {
        StageUse {
            ns: self.ns * n,
            waited_ns: self.waited_ns * n,
            reads: self.reads * n,
            bytes: self.bytes * n,
        }
    }
}

/// What went into each stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stages([StageUse; SearchStage::ALL.len()]);

impl Stages {
    pub fn of(&self, stage: SearchStage) -> &StageUse {
        &self.0[stage as usize]
    }

    pub fn of_mut(&mut self, stage: SearchStage) -> &mut StageUse {
        &mut self.0[stage as usize]
    }

    /// All of it in one stage.
    pub fn whole(stage: SearchStage, used: StageUse) -> Stages {
        let mut stages = Stages::default();
        *stages.of_mut(stage) = used;
        stages
    }

    pub fn add(&mut self, other: &Stages) {
        for stage in SearchStage::ALL {
            self.of_mut(stage).add(other.of(stage));
        }
    }

    /// Those that anything went into.
    pub fn used(&self) -> impl Iterator<Item = (SearchStage, &StageUse)> {
        SearchStage::ALL
            .into_iter()
            .map(|stage| (stage, self.of(stage)))
            .filter(|(_, used)| **used != StageUse::default())
    }
}
