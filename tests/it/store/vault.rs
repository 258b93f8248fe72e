//! Secrets at rest, sealed with the key of a file or of the database.

use std::sync::Arc;

use rstest::rstest;
use touchstone::domain::pack::keys::SecretKey;
use touchstone::domain::sealing::Sealed;
use touchstone::ports::{NoSigningKey, SigningKey, Store};
use touchstone::service::vault::{Vault, VaultError};
use touchstone::system::SystemIds;

use super::{Engine, Engine::*, open};

struct Given(u8);

impl SigningKey for Given {
    fn key(&self) -> Result<Arc<SecretKey>, NoSigningKey> {
        Ok(Arc::new(SecretKey::from_random([self.0; 32])))
    }
}

fn vault(store: &Arc<dyn Store>, file: Option<u8>) -> Vault {
    let file = file.map(|seed| Arc::new(Given(seed)) as Arc<dyn SigningKey>);
    Vault::new(store.clone(), Arc::new(SystemIds), file)
}

#[rstest]
#[tokio::test]
async fn a_secret_is_opened_by_every_replica_and_by_no_other_key(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => database, store);
    let before = vault(&store, None).seal("a", b"canary").await.unwrap();
    let other = database.open().await;
    assert_eq!(
        vault(&other, None).open("a", &before).await.unwrap(),
        b"canary"
    );
    // A host that is given a key still reads what it sealed before.
    let given = vault(&other, Some(7));
    assert_eq!(given.open("a", &before).await.unwrap(), b"canary");
    let sealed = given.seal("a", b"canary").await.unwrap();
    assert_eq!(given.open("a", &sealed).await.unwrap(), b"canary");
    for stranger in [vault(&store, None), vault(&store, Some(8))] {
        let refused = stranger.open("a", &sealed).await.unwrap_err();
        assert!(matches!(refused, VaultError::Sealed(Sealed::OtherKey)));
    }
    let elsewhere = given.open("b", &sealed).await.unwrap_err();
    assert!(matches!(elsewhere, VaultError::Sealed(Sealed::Changed)));
}
