//! A limited resource, shared so that one user cannot take all of it.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

/// The amounts taken, in all and by each user.
pub struct Shares<K: Clone + Eq + Hash> {
    most: usize,
    own: usize,
    taken: Mutex<Taken<K>>,
}

struct Taken<K> {
    total: usize,
    by: HashMap<K, usize>,
}

/// An amount that is taken; dropping it gives it back.
pub struct Share<K: Clone + Eq + Hash> {
    shares: Arc<Shares<K>>,
    who: K,
    amount: usize,
}

/// Why nothing is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// The whole amount, given here, is taken.
    ForAll(usize),
    /// The user's own maximum, given here, is taken.
    ForOne(usize),
}

impl<K: Clone + Eq + Hash> Shares<K> {
    /// `most` in all, of which one user may have `own`.
    pub fn new(most: usize, own: usize) -> Arc<Self> {
        let taken = Taken {
            total: 0,
            by: HashMap::new(),
        };
        Arc::new(Self {
            most,
            own,
            taken: Mutex::new(taken),
        })
    }

    /// `most` in all, of which one user may have half.
    pub fn halved(most: usize) -> Arc<Self> {
        Self::new(most, most.div_ceil(2))
    }

    /// Takes an amount.
    ///
    /// # Errors
    /// [`Full`].
    pub fn take(self: &Arc<Self>, who: &K, amount: usize) -> Result<Share<K>, Full> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if amount > self.most.saturating_sub(taken.total) {
            return Err(Full::ForAll(self.most));
        }
        let own = taken.by.get(who).copied().unwrap_or_default();
        if amount > self.own.saturating_sub(own) {
            return Err(Full::ForOne(self.own));
        }
        taken.total += amount;
        taken.by.insert(who.clone(), own + amount);
        Ok(Share {
            shares: self.clone(),
            who: who.clone(),
            amount,
        })
    }

    pub fn taken(&self) -> usize {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.total
    }
}

impl<K: Clone + Eq + Hash> Drop for Share<K> {
    fn drop(&mut self) {
        let mut taken = self
            .shares
            .taken
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        taken.total = taken.total.saturating_sub(self.amount);
        let left = taken
            .by
            .get(&self.who)
            .map_or(0, |own| own.saturating_sub(self.amount));
        // Remove users that hold nothing, so that the table does not grow forever.
        if left == 0 {
            taken.by.remove(&self.who);
        } else {
            taken.by.insert(self.who.clone(), left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holder_gets_at_most_its_share_and_releases_all_of_it() {
        let shares = Shares::halved(10);
        let held = shares.take(&"a", 3).ok().unwrap();
        assert_eq!(shares.take(&"a", 3).err(), Some(Full::ForOne(5)));
        let rest = shares.take(&"a", 2).ok().unwrap();
        let other = shares.take(&"b", 5).ok().unwrap();
        assert_eq!(shares.take(&"c", 1).err(), Some(Full::ForAll(10)));
        assert_eq!(shares.taken(), 10);
        drop((held, rest));
        assert_eq!(shares.taken(), 5);
        let again = shares.take(&"a", 5).ok();
        assert!(again.is_some());
        drop((again, other));
        assert_eq!(shares.taken(), 0);
        assert!(shares.taken.lock().unwrap().by.is_empty());
    }

    #[test]
    fn huge_amounts_are_refused_without_overflow() {
        let shares = Shares::halved(10);
        let _held = shares.take(&"a", 1).ok().unwrap();
        for amount in [usize::MAX, usize::MAX - 1, 11] {
            assert!(shares.take(&"a", amount).is_err());
        }
    }
}
