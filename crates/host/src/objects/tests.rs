use std::collections::BTreeMap;

use super::*;

async fn written(storage: &ObjectStorage, name: &[&str], content: &[u8]) -> Stored {
    let mut upload = storage.write(name, "text/plain").unwrap();
    for part in content.chunks(1 << 20) {
        upload.add(part.to_vec()).await.unwrap();
    }
    upload.finish().await.unwrap()
}

async fn listed(storage: &ObjectStorage, below: &[&str]) -> BTreeMap<String, u64> {
    let found = storage.list(below).unwrap();
    found
        .map(|entry| entry.map(|entry| (entry.name, entry.bytes)).unwrap())
        .collect()
        .await
}

#[tokio::test]
async fn an_object_in_a_folder_is_read_back_as_it_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let storage = ObjectStorage::folder(folder.path().to_owned()).unwrap();
    storage.check().await.unwrap();
    for content in [b"small".to_vec(), vec![7; PART * 2 + 1]] {
        let name = ["acme", "2026", "run_1.gz"];
        let stored = written(&storage, &name, &content).await;
        assert_eq!(stored.bytes, content.len() as u64);
        assert_eq!(storage.stored(&name).await.unwrap(), stored);
        let mut copy = Vec::new();
        let copied = storage.copy_to("acme/2026/run_1.gz", u64::MAX, &mut copy);
        copied.await.unwrap();
        assert_eq!(copy, content);
        let length = content.len() as u64;
        let mut copy = Vec::new();
        let refused = storage.copy_to("acme/2026/run_1.gz", length - 1, &mut copy);
        assert_eq!(refused.await, Err(ObjectError::TooLarge(length - 1)));
    }
    assert_eq!(listed(&storage, &[]).await.len(), 1);
    assert_eq!(listed(&storage, &["globex"]).await, BTreeMap::new());
    let missing = storage.stored(&["acme", "none"]).await;
    assert_eq!(missing, Err(ObjectError::NotFound));
}

#[tokio::test]
async fn an_unfinished_upload_leaves_no_object() {
    let folder = tempfile::tempdir().unwrap();
    let storage = ObjectStorage::folder(folder.path().to_owned()).unwrap();
    for abort in [true, false] {
        let mut upload = storage.write(&["a"], "text/plain").unwrap();
        upload.add(vec![0; PART * 2]).await.unwrap();
        if abort {
            upload.abort().await;
        }
        assert_eq!(listed(&storage, &[]).await, BTreeMap::new());
    }
}

#[tokio::test]
async fn names_stay_within_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("inner");
    std::fs::create_dir(&inner).unwrap();
    let storage = ObjectStorage::folder(inner.clone()).unwrap();
    written(&storage, &["..", "a/../b", "c"], b"x").await;
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    assert_eq!(std::fs::read_dir(&inner).unwrap().count(), 1);
}

#[tokio::test]
async fn a_folder_that_is_not_mounted_is_not_created() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing");
    let storage = ObjectStorage::folder(missing.clone()).unwrap();
    assert_eq!(
        storage.write(&["a"], "text/plain").err(),
        Some(ObjectError::NoFolder)
    );
    assert_eq!(storage.check().await, Err(ObjectError::NoFolder));
    assert!(!missing.exists());
}
