CREATE TABLE `pieces` (
  `id` int NOT NULL,
  `piece` longblob,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;
