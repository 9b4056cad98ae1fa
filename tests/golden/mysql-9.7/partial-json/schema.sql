CREATE TABLE `j` (
  `id` int NOT NULL,
  `d` json DEFAULT NULL,
  `e` json DEFAULT NULL,
  `v` int DEFAULT NULL,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;
